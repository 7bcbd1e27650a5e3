"""What words are for in a conversation, apart from what they say: small pure judgements, in several languages."""
