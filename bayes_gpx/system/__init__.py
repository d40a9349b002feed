"""What the package asks of the machine: files, digests, memory, and where compiled code is kept."""
