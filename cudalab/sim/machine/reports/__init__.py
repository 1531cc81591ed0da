"""The wording of every fault and finding."""
