"""The API's messages and stubs, written by generate_stubs.sh."""
