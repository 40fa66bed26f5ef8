-- Room, hall and layer of every unit, and of every archived one in the same transaction: Hindsight moves units
-- between the two by the column list of the live catalog, and answers 500 where they differ.
-- Constant defaults: existing units read general, fact, 2 and no page is rewritten. Columns that a fork has
-- already stay as they are, and its archive gets the same types.
ALTER TABLE {units}
    ADD COLUMN IF NOT EXISTS room {room_column},
    ADD COLUMN IF NOT EXISTS hall {hall_column},
    ADD COLUMN IF NOT EXISTS layer {layer_column};

ALTER TABLE IF EXISTS {archive}
    ADD COLUMN IF NOT EXISTS room {room_column},
    ADD COLUMN IF NOT EXISTS hall {hall_column},
    ADD COLUMN IF NOT EXISTS layer {layer_column};
