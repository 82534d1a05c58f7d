"""What each command does, a file each."""
