// The trace player.
