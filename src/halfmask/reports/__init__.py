"""Records in; figures and tables out."""
