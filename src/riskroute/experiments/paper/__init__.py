"""The paper's figures and tables, and the claims it makes about them."""
