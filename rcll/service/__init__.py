"""The palace answers over HTTP: routes for whatever server they live in, and a server of our own."""
