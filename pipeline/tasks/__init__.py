"""Labels of class folders, and tasks: which outputs of a model count for the images of a data set."""
