"""The palace answers over HTTP: a server of its own, and an extension inside Hindsight, with one set of routes."""
