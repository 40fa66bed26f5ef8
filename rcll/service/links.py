"""Routes of tunnels, closets and bridges."""

from fastapi import APIRouter

from rcll.service.host import Host


def add_link_routes(router: APIRouter, host: Host) -> None:
    """Add the routes."""
