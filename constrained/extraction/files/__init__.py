"""Documents and results in files.

records.py        documents out of JSON lines, CSV, Parquet, folders of texts
results.py        results as JSON lines or Parquet, resumable
durable_files.py  files that survive a crash whole
parquet_files.py  Parquet, with pyarrow
labelled.py       documents with the values that are right
"""
