"""Operations, each described once and used by every engine."""
