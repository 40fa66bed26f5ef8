-- What a closet took the place of: layer, who decided it and by which rule, of a source that rests in the archive
-- layer because of this closet; null for the others. Set before the source is moved, so that a killed run leaves
-- nothing that no later run can give back.
ALTER TABLE {closet_sources} ADD COLUMN replaced jsonb;
