"""The queue pair: requestor, responder, their states, work requests and completions."""
