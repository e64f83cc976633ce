#!/bin/sh
# The node agent: the collection's library under the name tandem.
PYTHONPATH=/opt/tandem/lib exec /usr/bin/python3 -P -s -m tandem "$@"
