"""What stands on a page of a PDF, and where: letters, lines, order, forms, pictures; by pdfium."""
