"""`python -m hydra_validator`."""

from hydra_validator.cli import main

if __name__ == "__main__":
    main()
