#!/bin/sh
# The node agent: the collection's library under the name tandem. A unit runs it as root with the engine's environment,
# whose cache of byte code belongs to the engine.
unset PYTHONPYCACHEPREFIX
PYTHONPATH=/opt/tandem/lib exec /usr/bin/python3 -P -s -m tandem "$@"
