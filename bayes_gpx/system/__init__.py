"""Operating system and machine: files, digests, memory, and folders of compiled code."""
