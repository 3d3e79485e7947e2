"""Receives messages: puts them in order, cleans and stores them."""
