"""Packages of a distribution: those of the library, and the folders of the code location inside `findingaid_dagster`.

pyproject.toml has all the rest. It could name these folders only in a list of every package.
"""

from setuptools import find_namespace_packages, setup

CODE_LOCATION = {f"findingaid_dagster.{folder}": folder for folder in ("assets", "pipelines", "resources")}

setup(packages=[*find_namespace_packages(include=["findingaid*"]), *CODE_LOCATION], package_dir=CODE_LOCATION)
