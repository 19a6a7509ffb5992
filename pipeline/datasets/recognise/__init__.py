"""Comparison of somebody's ImageNet-C with images made of the same photographs: which one is it?"""
