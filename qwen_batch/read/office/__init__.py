"""Files of word processors, spreadsheets, slides and mail programs."""
