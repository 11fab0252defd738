"""What the HTML reports are made of: one page, one style, tables, drawings."""
