"""Tests of labels of class folders, and of tasks."""
