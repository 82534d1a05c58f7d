"""What the commands print and write: tables, pictures, documents, progress."""
