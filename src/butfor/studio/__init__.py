"""The local page: start runs, watch them, read them; `butfor studio [DIR]`."""
