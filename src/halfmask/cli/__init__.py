"""One thin file for each verb: read the arguments, call one function, print."""
