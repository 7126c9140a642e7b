"""What this machine has for loopeng, looked at piece by piece; each piece is fine, could be better, or is in the way.

::

    findings         what one line says
    libraries        Python, the libraries, the optional extras
    machine          torch and its device, in a process of their own; the cache folder; the embedded models
    sandboxes        where generated code can run
    database         the database that commands from here would use
    surroundings     the webhook's secret, the terminal
"""

from loopeng.doctor.database import examine_database
from loopeng.doctor.findings import Finding
from loopeng.doctor.libraries import examine_libraries
from loopeng.doctor.machine import examine_machine
from loopeng.doctor.sandboxes import examine_sandbox
from loopeng.doctor.surroundings import examine_surroundings

__all__ = [
    "Finding",
    "examine_database",
    "examine_libraries",
    "examine_machine",
    "examine_sandbox",
    "examine_surroundings",
]
