"""Receives messages: orders, cleans and stores them."""
