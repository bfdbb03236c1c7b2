# Runs one of Django's suites: its name is the argument.
home=$PWD
cd sources/tests || exit 1
PYTHONPATH=$home exec "$home/env/bin/python" runtests.py --settings=client_settings \
  --parallel 1 --noinput "$@"
