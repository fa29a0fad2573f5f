"""Other people's methods on our beds, one file each, imported only where they are asked for."""
