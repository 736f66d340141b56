"""Risk-aware linear bandits: problems, action sets, optimal design, estimation, policies, regret.

Pure mathematics: an action here is a feature vector and nothing else.
"""
