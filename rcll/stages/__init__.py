"""Pure stages: frames and frozen parameters in, new frames out."""
