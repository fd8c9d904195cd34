"""The control socket of a switch process: client, server, and the commands of BMv2's CLI."""
