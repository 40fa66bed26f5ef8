"""Tunnels: what two banks both know, found by themselves, few and explained."""

from rcll.stages.tunnels.link import link_units
from rcll.stages.tunnels.params import TunnelParams
from rcll.stages.tunnels.policy import allowed_banks

__all__ = ["TunnelParams", "allowed_banks", "link_units"]
