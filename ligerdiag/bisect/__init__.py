"""What makes a case right or wrong: axes that vary a compile, and the searches over what they vary."""
