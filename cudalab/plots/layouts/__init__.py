"""Drawings that explain a layout, an order or a path. They take plain numbers and depend on no device, so a learner can
change a number and look again. Nothing in them is measured: ``cudalab.profile`` counts what a kernel really did."""
