"""The settings of Django's own test suites: the server of the PG… variables, by psycopg 3."""

import os


def database(alias):
    """Returns a connection's settings; the runner creates the database that they name."""
    name = os.environ["PGDATABASE"]
    test = {"NAME": f"test_{name}_{alias}"}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
        "USER": os.environ["PGUSER"],
        "NAME": name,
        "TEST": test,
    }


DATABASES = {"default": database("default"), "other": database("other")}
SECRET_KEY = "of the tests"
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = False
# Django's default is its own suites' zone too.
TIME_ZONE = os.environ.get("CLIENTS_TIME_ZONE", "America/Chicago")
TEST_RUNNER = "client_runner.Runner"
