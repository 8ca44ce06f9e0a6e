"""ZooKeeper as messages: questions and answers, watches, and stores on a server or in memory."""
