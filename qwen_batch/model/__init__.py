"""weights -> logits."""
