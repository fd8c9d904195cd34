"""The errors of the testbed under the names that programs and plug-ins of users import.

They are those of p4fabric, from where the testbed's own code takes them.
"""

from p4fabric.base.errors import RunError as RunError
from p4fabric.base.errors import UserError as UserError
