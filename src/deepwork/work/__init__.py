"""What agents work on and with: plans, jobs and tracks, their agents, messages, workspaces and templates.

Its packages declare the tools that agents call, and ask the gates before work counts as done.
A package belongs here if agents change its rows; what starts agents or moves finished work is a floor higher.
"""
