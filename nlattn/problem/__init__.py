"""What all floors above speak: checked arguments of attention, and partial attentions that know their mass."""
