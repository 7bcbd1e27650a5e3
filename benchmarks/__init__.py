"""Parley's language model worker side by side with the engines that people would pick instead.

Standard library only in what the peers' own virtual environments import (workloads, measure, peers.inside).
"""
