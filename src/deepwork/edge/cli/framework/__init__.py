"""What every command is built from: options, output, tables, and commands derived from tools."""
