"""Plans: durable graphs of tasks that agents claim, work on, hand over and recover."""
