"""Language modelling: text that goes on."""
