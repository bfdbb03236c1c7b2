# Django's own tests are in its source distribution alone.
set -e
django=$(grep '^Django==' requirements.txt)
rm -rf sources
env/bin/python -m pip download -q --no-deps --no-binary :all: -d sources "$django"
tar -xzf sources/*.tar.gz -C sources --strip-components=1
