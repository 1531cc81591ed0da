"""memcheck, racecheck, initcheck and synccheck, as compute-sanitizer has them."""
