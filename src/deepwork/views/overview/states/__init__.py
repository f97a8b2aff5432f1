"""One state for each thing, with why and the command that moves it on; every interface says the same."""
